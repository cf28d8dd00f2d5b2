"""Programs as text. `forms.py` is the face."""
