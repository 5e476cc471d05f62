FIGURES = ()


def save(*a):
    return []
